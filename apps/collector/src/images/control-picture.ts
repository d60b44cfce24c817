import sharp from 'sharp';

/** Large enough for models that want so many pixels a side. */
export const CONTROL_SIZE = { width: 256, height: 256 } as const;

let made: Buffer | undefined;

/**
 * A plain grey JPEG, which no model has a reason to fail on: a server that answers it is there. Made once, and not
 * in the turn of what is unpacked: the trials of all processes wait for the one that shows it.
 */
export async function controlPicture(): Promise<Buffer> {
  const grey = { ...CONTROL_SIZE, channels: 3, background: 'grey' } as const;
  made ??= await sharp({ create: grey }).jpeg().toBuffer();
  return made;
}
