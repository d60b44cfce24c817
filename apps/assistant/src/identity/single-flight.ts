/**
 * Lets callers that ask for the same thing at the same moment share one answer, error included. It
 * remembers nothing: the next caller after the answer asks anew.
 */
export function singleFlight<Result>(): (
  key: string,
  work: () => Promise<Result>,
) => Promise<Result> {
  const flights = new Map<string, Promise<Result>>();
  return (key, work) => {
    const current = flights.get(key);
    if (current !== undefined) return current;
    const flight = work().finally(() => flights.delete(key));
    flights.set(key, flight);
    return flight;
  };
}
