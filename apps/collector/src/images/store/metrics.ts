import { Gauge, type Registry } from 'prom-client';
import type { StoreState } from './outage.ts';

/** Whether the image store can be used by this process. */
export function registerStoreMetrics(
  registry: Registry,
  { imageStore }: { imageStore: Pick<StoreState, 'isAway'> },
): void {
  const away = new Gauge({
    name: 'collector_image_store_away',
    help: '1 while the image store cannot be used: no payload is taken off the queue then.',
    registers: [registry],
    collect() {
      away.set(imageStore.isAway ? 1 : 0);
    },
  });
}
