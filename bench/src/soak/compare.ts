import { type Table, TABLES, type Sample } from './sample.ts';
import { median, slope } from '../statistics.ts';

/** Metric of a sample and its permitted growth. */
export type Metric = {
  name: string;
  unit: string;
  read: (sample: Sample) => number;
  /** Maximum ratio of the last value to the first; undefined if growth is by design. */
  maxRatio: number | undefined;
  /** Smaller values count as this value in the ratio. */
  negligible?: number;
  /** Permitted growth per hour, as a share of the initial value; unlimited by default. */
  maxHourlyGrowth?: number;
  /** Summary of the samples of a window; the median by default. */
  summarize?: (values: readonly number[]) => number;
};

/** Values of a metric in the first and the last window, and its slope over all samples. */
export type Comparison = Omit<Metric, 'read' | 'summarize'> & {
  first: number;
  last: number;
  ratio: number;
  hourlySlope: number;
};

const HOUR_SECONDS = 3600;
const WINDOW_SECONDS = 5 * 60;
/** Maximum window length as a share of the run's duration. */
const WINDOW_SHARE = 1 / 6;

/** Default threshold of autovacuum: dead rows as a share of live ones, plus a constant. */
const VACUUM = { share: 0.2, rows: 50 };

/** Returns the maximum, because dead rows vary with each vacuum. */
const getMax = (values: readonly number[]): number => Math.max(...values);

/** Returns the minimum, because files in use are soon deleted, but leaked files remain. */
const getMin = (values: readonly number[]): number => Math.min(...values);

/** Tables that grow by design: history is kept, and unused images are kept for days. */
const GROWING_TABLES: ReadonlySet<Table> = new Set(['listing_snapshots', 'images']);

/** Permitted growth per hour, as a share of the initial value. */
const MAX_HOURLY_GROWTH = 0.1;

/** Compared metrics, in the order of the table. */
const METRICS: readonly Metric[] = [
  {
    name: 'claim',
    unit: 'ms',
    read: ({ claimMs }) => claimMs,
    maxRatio: 1.5,
    maxHourlyGrowth: MAX_HOURLY_GROWTH,
  },
  { name: 'ingest p95', unit: 'ms', read: ({ ingestP95 }) => ingestP95, maxRatio: 1.5 },
  { name: 'fulltext p95', unit: 'ms', read: ({ searchP95 }) => searchP95.fulltext, maxRatio: 1.5 },
  { name: 'similar p95', unit: 'ms', read: ({ searchP95 }) => searchP95.similar, maxRatio: 1.5 },
  { name: 'hybrid p95', unit: 'ms', read: ({ searchP95 }) => searchP95.hybrid, maxRatio: 1.5 },
  {
    name: 'heap after collection',
    unit: 'MiB',
    read: ({ heapMiB }) => heapMiB,
    maxRatio: 1.1,
    maxHourlyGrowth: MAX_HOURLY_GROWTH,
  },
  {
    name: 'memory of the process',
    unit: 'MiB',
    read: ({ rssMiB }) => rssMiB,
    maxRatio: 1.1,
    maxHourlyGrowth: MAX_HOURLY_GROWTH,
  },
  { name: 'descriptors', unit: '', read: ({ descriptors }) => descriptors, maxRatio: 1.25 },
  {
    name: 'temporary files',
    unit: '',
    read: ({ temporaryFiles }) => temporaryFiles,
    maxRatio: 1,
    summarize: getMin,
  },
  ...TABLES.flatMap((name): Metric[] => {
    const maxSizeRatio = GROWING_TABLES.has(name) ? undefined : 1.5;
    return [
      {
        name: `${name}: dead rows`,
        unit: 'per live row',
        read: countDeadPerLive(name),
        maxRatio: 2,
        negligible: VACUUM.share,
        summarize: getMax,
      },
      {
        name: `${name}: table`,
        unit: 'MiB',
        read: readSize(name, 'heapMiB'),
        maxRatio: maxSizeRatio,
      },
      {
        name: `${name}: indexes`,
        unit: 'MiB',
        read: readSize(name, 'indexesMiB'),
        maxRatio: maxSizeRatio,
      },
    ];
  }),
];

function readSize(table: Table, size: 'heapMiB' | 'indexesMiB') {
  return ({ tables }: Sample): number => tables[table][size];
}

/**
 * Returns a reader of dead rows per live row, a ratio that can exceed 1. Fewer than 250 live rows count as 250, because
 * below this number the constant of autovacuum's threshold outweighs its share.
 */
function countDeadPerLive(table: Table) {
  return ({ tables }: Sample): number => {
    const { live, dead } = tables[table];
    return dead / Math.max(live, VACUUM.rows / VACUUM.share);
  };
}

/**
 * Compares the last five minutes with the first five; in a run under 30 minutes, the last sixth with the first.
 * @param samples At least one sample.
 * @param seconds Duration of the run.
 */
export function compare(samples: readonly Sample[], seconds: number): Comparison[] {
  const windowSeconds = Math.min(WINDOW_SECONDS, seconds * WINDOW_SHARE);
  const firstWindow = samples.filter((sample) => sample.seconds <= windowSeconds);
  const lastWindow = samples.filter((sample) => sample.seconds > seconds - windowSeconds);
  // A short run may have no sample in a window, so the nearest sample counts.
  const firstWindowSamples = firstWindow.length > 0 ? firstWindow : samples.slice(0, 1);
  const lastWindowSamples = lastWindow.length > 0 ? lastWindow : samples.slice(-1);
  return METRICS.map(({ read, summarize = median, ...metric }) => {
    const first = summarize(firstWindowSamples.map(read));
    const last = summarize(lastWindowSamples.map(read));
    const { negligible = 0 } = metric;
    const ratio = growth(Math.max(first, negligible), Math.max(last, negligible));
    const points = samples.map((sample) => [sample.seconds, read(sample)] as const);
    const hourlySlope = HOUR_SECONDS * slope(points);
    return { ...metric, first, last, ratio, hourlySlope };
  });
}

/** Returns the growth ratio; two zeros have the ratio 1. */
function growth(first: number, last: number): number {
  return first === last ? 1 : last / first;
}
