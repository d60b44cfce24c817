const BROWSERS: readonly (readonly [RegExp, string])[] = [
  [/\bEdg\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bFirefox\//, 'Firefox'],
  [/Chrom(?:e|ium)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
];
const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/Android/, 'Android'],
  [/iPhone|iPad/, 'iOS'],
  [/Windows/, 'Windows'],
  [/Mac OS X/, 'macOS'],
  [/Linux/, 'Linux'],
];

/** Describes a user agent by browser and system, or else by its first word; undefined for none. */
export function describeDevice(userAgent: string | null): string | undefined {
  if (userAgent === null || userAgent.trim() === '') return undefined;
  const find = (names: typeof BROWSERS) => names.find(([pattern]) => pattern.test(userAgent))?.[1];
  const found = [find(BROWSERS), find(SYSTEMS)].filter((name) => name !== undefined);
  return found.length === 0 ? userAgent.split(/[\s/]/, 1)[0] : found.join(', ');
}
