/** The JSON pointer (RFC 6901) of what these keys and indices lead to. */
export function pointerTo(path: readonly (string | number)[]): string {
  return path
    .map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`)
    .join('');
}
