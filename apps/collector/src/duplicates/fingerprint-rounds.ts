import type { Images } from '../images/images.ts';

/** Pictures of one turn whose fingerprint is worked out: some 50 ms each. */
const PICTURES = 16;

/** After so long those that could not be read are tried again: their store may have been away. */
const AGAIN_MS = 3_600_000;

/**
 * Makes the function that works out what older pictures look like, some at each call. A round goes through all
 * of them; another one begins an hour later where some could not be read.
 * @param options.onError Told of a picture that cannot be read.
 */
export function createFingerprintRounds(
  images: Pick<Images, 'fingerprintStored'>,
  options: {
    signal: AbortSignal;
    onError: (error: unknown, sha256: string) => void;
    now?: () => number;
  },
): () => Promise<void> {
  const { signal, onError, now = () => performance.now() } = options;
  let after: string | undefined = '';
  let beginsAt = Infinity;

  return async () => {
    if (after === undefined && now() < beginsAt) return;
    if (after === undefined) [after, beginsAt] = ['', Infinity];
    after = await images.fingerprintStored({
      after,
      limit: PICTURES,
      signal,
      onError(error, sha256) {
        beginsAt = now() + AGAIN_MS;
        onError(error, sha256);
      },
    });
  };
}
