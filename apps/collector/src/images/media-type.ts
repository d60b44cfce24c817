/** The types of pictures that are taken. Contract 4, Images. */
export type MediaType = 'image/jpeg' | 'image/png' | 'image/webp' | 'image/avif' | 'image/gif';

/**
 * Tells a picture's type by its first bytes, whatever its sender calls it. Nothing else is handed to
 * the decoder: it also reads SVG, which can point at other files.
 * @param start At least the first 12 bytes.
 */
export function detectMediaType(start: Buffer): MediaType | undefined {
  const text = start.toString('latin1');
  if (text.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  if (text.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png';
  if (/^GIF8[79]a/.test(text)) return 'image/gif';
  if (/^RIFF[^]{4}WEBP/.test(text)) return 'image/webp';
  // An ISO media file whose major brand is AVIF, still or as a sequence.
  if (/^[^]{4}ftypavi[fs]/.test(text)) return 'image/avif';
  return undefined;
}
