import { type Table, TABLES, type Sample } from './sample.ts';
import { median, slope } from '../statistics.ts';

/** A figure of a sample, and how many times as large it may be at the end as at the beginning. */
export type Figure = {
  name: string;
  unit: string;
  of: (sample: Sample) => number;
  /** Maximum ratio; undefined if growth is by design. */
  most: number | undefined;
  /** Minimum of both values for the ratio. */
  negligible?: number;
  /** Permitted growth in an hour, as a share of the initial value; unlimited by default. */
  mostPerHour?: number;
  /** Summary of the samples of a window; the median by default. */
  by?: (values: readonly number[]) => number;
};

/** A figure at the beginning and at the end, and by how much all samples together say it grows in an hour. */
export type Comparison = Omit<Figure, 'of' | 'by'> & {
  first: number;
  last: number;
  ratio: number;
  perHour: number;
};

const HOUR_SECONDS = 3600;
const WINDOW_SECONDS = 5 * 60;
/** Of a run that is shorter than six of these. */
const WINDOW_SHARE = 1 / 6;

/** By PostgreSQL's defaults autovacuum waits for a fifth of a table's live rows to be dead, and 50 more. */
const VACUUM = { share: 0.2, rows: 50 };

/** The dead rows of a table come and go with its vacuum, so their most is what tells. */
const most = (values: readonly number[]): number => Math.max(...values);

/** Returns the minimum, which shows leaks in spite of temporary work. */
const least = (values: readonly number[]): number => Math.min(...values);

/** History stays, and unused images stay for days. */
const GROWING: ReadonlySet<Table> = new Set(['listing_snapshots', 'images']);

/** Uses the slope over all samples, not the first and last. */
const STEADY = 0.1;

/** Compared figures, in the order of the table. */
const FIGURES: readonly Figure[] = [
  { name: 'claim', unit: 'ms', of: ({ claimMs }) => claimMs, most: 1.5, mostPerHour: STEADY },
  { name: 'ingest p95', unit: 'ms', of: ({ ingestP95 }) => ingestP95, most: 1.5 },
  { name: 'fulltext p95', unit: 'ms', of: ({ searchP95 }) => searchP95.fulltext, most: 1.5 },
  { name: 'similar p95', unit: 'ms', of: ({ searchP95 }) => searchP95.similar, most: 1.5 },
  { name: 'hybrid p95', unit: 'ms', of: ({ searchP95 }) => searchP95.hybrid, most: 1.5 },
  {
    name: 'heap after collection',
    unit: 'MiB',
    of: ({ heapMiB }) => heapMiB,
    most: 1.1,
    mostPerHour: STEADY,
  },
  {
    name: 'memory of the process',
    unit: 'MiB',
    of: ({ rssMiB }) => rssMiB,
    most: 1.1,
    mostPerHour: STEADY,
  },
  { name: 'descriptors', unit: '', of: ({ descriptors }) => descriptors, most: 1.25 },
  { name: 'temporary files', unit: '', of: (one) => one.temporaryFiles, most: 1, by: least },
  ...TABLES.flatMap((name): Figure[] => {
    const mostSize = GROWING.has(name) ? undefined : 1.5;
    return [
      {
        name: `${name}: dead rows`,
        unit: 'per live row',
        of: deadPerLive(name),
        most: 2,
        negligible: VACUUM.share,
        by: most,
      },
      { name: `${name}: table`, unit: 'MiB', of: at(name, 'heapMiB'), most: mostSize },
      { name: `${name}: indexes`, unit: 'MiB', of: at(name, 'indexesMiB'), most: mostSize },
    ];
  }),
];

function at(table: Table, figure: 'heapMiB' | 'indexesMiB') {
  return ({ tables }: Sample): number => tables[table][figure];
}

/**
 * For each live row, since a larger table is vacuumed when more are dead; a share of all rows would hide
 * their growth, since it ends at 100 %. A table counts as one of 250 live rows at least, below which the
 * 50 weigh more than the fifth: otherwise the result would hang on how many of a few are live at the moment.
 */
function deadPerLive(table: Table) {
  return ({ tables }: Sample): number => {
    const { live, dead } = tables[table];
    return dead / Math.max(live, VACUUM.rows / VACUUM.share);
  };
}

/**
 * Compares the last five minutes with the first, or the last sixth of a shorter run with its first.
 * @param samples At least one.
 */
export function compare(samples: readonly Sample[], seconds: number): Comparison[] {
  const window = Math.min(WINDOW_SECONDS, seconds * WINDOW_SHARE);
  const begin = samples.filter((sample) => sample.seconds <= window);
  const end = samples.filter((sample) => sample.seconds > seconds - window);
  // A window always has at least one sample.
  const firsts = begin.length > 0 ? begin : samples.slice(0, 1);
  const lasts = end.length > 0 ? end : samples.slice(-1);
  return FIGURES.map(({ of, by = median, ...figure }) => {
    const [first, last] = [by(firsts.map(of)), by(lasts.map(of))];
    const { negligible = 0 } = figure;
    const ratio = growth(Math.max(first, negligible), Math.max(last, negligible));
    const perHour = HOUR_SECONDS * slope(samples.map((one) => [one.seconds, of(one)]));
    return { ...figure, first, last, ratio, perHour };
  });
}

/** Returns the growth ratio; two zeros have the ratio 1. */
function growth(first: number, last: number): number {
  return first === last ? 1 : last / first;
}
