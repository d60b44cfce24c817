import type { Logger } from '@oselya/kit';
import {
  imageDescription,
  type ModelClient,
  PROBE_PREFIX,
  type Probe,
  startProbes,
} from '@oselya/model';
import type { Config } from '../config.ts';

/**
 * Probes in the background whether embeddings have the database's width and, with `image`, whether the vision model
 * takes images. The mock is not probed.
 * @param options.image Creates a JPEG; undefined in a process that describes no images.
 * @returns `close` aborts the probe in progress.
 */
export function probeModel(
  config: Pick<Config, 'MODEL_MODE' | 'MODEL_VISION'>,
  {
    model,
    log,
    image,
  }: {
    model: Pick<ModelClient, 'embed' | 'generateObject'>;
    log: Pick<Logger, 'info' | 'warn'>;
    image: (() => Promise<Uint8Array>) | undefined;
  },
): { close: () => Promise<void> } {
  const probes: Probe[] = [
    {
      name: 'embeddings',
      run: (signal) => model.embed([PROBE_PREFIX], { signal }),
      advice: 'Until then no listing is completed, and search by meaning fails.',
    },
  ];
  if (image !== undefined && config.MODEL_VISION !== 'off') {
    probes.push({
      name: 'images',
      run: async (signal) =>
        model.generateObject({
          ...imageDescription,
          operation: 'probe',
          system: 'Describe the image.',
          data: { hint: PROBE_PREFIX },
          image: { bytes: await image(), mediaType: 'image/jpeg' },
          signal,
        }),
      advice: 'Set MODEL_VISION to a model that sees, or MODEL_VISION=off.',
    });
  }
  return startProbes(config.MODEL_MODE === 'mock' ? [] : probes, log);
}
