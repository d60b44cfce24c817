import sharp from 'sharp';

export type Format = 'jpeg' | 'png' | 'webp' | 'avif' | 'gif';

export const FORMATS: readonly Format[] = ['jpeg', 'png', 'webp', 'avif', 'gif'];

/** A picture of one colour with a stripe; different colours give different bytes. */
export function picture(
  format: Format,
  options: { width?: number; height?: number; colour?: string; orientation?: number } = {},
): Promise<Buffer> {
  const { width = 64, height = 48, colour = 'teal', orientation } = options;
  const image = sharp({ create: { width, height, channels: 3, background: colour } });
  if (orientation !== undefined) image.withMetadata({ orientation });
  return image.toFormat(format).toBuffer();
}
