/** Measured queue and the module of its process. */
export type Variant = { name: string; module: URL };

const at = (file: string): URL => new URL(`servers/${file}.ts`, import.meta.url);

export const collector: Variant = { name: 'collector', module: at('collector') };
export const graphileWorker: Variant = {
  name: 'graphile-worker, defaults',
  module: at('graphile-worker-default'),
};
export const graphileWorkerBatching: Variant = {
  name: 'graphile-worker, batching',
  module: at('graphile-worker-batching'),
};
export const graphileWorkerLargeBatches: Variant = {
  name: 'graphile-worker, batches of 500',
  module: at('graphile-worker-large-batches'),
};
export const pgBoss: Variant = { name: 'pg-boss', module: at('pg-boss') };

export const variants: readonly Variant[] = [
  collector,
  graphileWorker,
  graphileWorkerBatching,
  pgBoss,
  graphileWorkerLargeBatches,
];
