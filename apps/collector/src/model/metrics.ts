import type { BreakerView } from '@oselya/model';
import { Gauge, type Registry } from 'prom-client';

/**
 * Whether the model server is left alone. A breaker that may be tried, and that nobody asks, keeps no job back, so
 * it is no outage; while somebody does try it is one until the answer. Contract 4, Metrics.
 */
export function registerModelMetrics(
  registry: Registry,
  { breaker }: { breaker: Pick<BreakerView, 'isOpen'> },
): void {
  const open = new Gauge({
    name: 'collector_model_breaker_open',
    help: '1 while a breaker in front of the model server is open, or a request tries whether it can be closed.',
    registers: [registry],
    collect() {
      open.set(breaker.isOpen ? 1 : 0);
    },
  });
}
