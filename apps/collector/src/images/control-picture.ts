import sharp from 'sharp';
import { decodeInTurn } from './decoding.ts';

/** Large enough for models that want so many pixels a side. */
export const CONTROL_SIZE = { width: 256, height: 256 } as const;

/** A plain grey JPEG, which no model has a reason to fail on: a server that answers it is there. */
export function controlPicture(): Promise<Buffer> {
  const grey = { ...CONTROL_SIZE, channels: 3, background: 'grey' } as const;
  return decodeInTurn(() => sharp({ create: grey }).jpeg().toBuffer());
}
