/** The types of pictures that are taken. Contract 4, Images. */
export type MediaType = 'image/jpeg' | 'image/png' | 'image/webp' | 'image/avif' | 'image/gif';

/** So much of a file tells its type: nothing writes a longer list of brands. */
const START_BYTES = 256;

/**
 * Tells a picture's type by its first bytes, whatever its sender calls it. Nothing else is handed to
 * the decoder: it also reads SVG, which can point at other files.
 */
export function detectMediaType(content: Buffer): MediaType | undefined {
  const start = content.toString('latin1', 0, START_BYTES);
  if (start.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  if (start.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png';
  if (/^GIF8[79]a/.test(start)) return 'image/gif';
  if (/^RIFF[^]{4}WEBP/.test(start)) return 'image/webp';
  if (start.startsWith('ftyp', 4) && isAvif(start.slice(8, content.readUInt32BE()))) {
    return 'image/avif';
  }
  return undefined;
}

/**
 * Whether an ISO media file is AVIF, still or as a sequence: that may be its major brand, or one of those
 * that it is compatible with.
 * @param brands Four characters each; the second is a version and none.
 */
const isAvif = (brands: string): boolean => /^(?:[^]{4})*?avi[fs]/.test(brands);
