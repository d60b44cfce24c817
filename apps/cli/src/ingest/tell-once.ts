/** @returns Tells why records have to wait, each reason once. */
export function createTellOnce(tell: (line: string) => void): (reason: string) => void {
  const told = new Set<string>();
  return (reason) => {
    // Numbers, such as the seconds to wait, make no other reason of it.
    const kind = reason.replaceAll(/\d+/g, '');
    if (told.has(kind)) return;
    told.add(kind);
    tell(`${reason}. It is tried again.`);
  };
}
