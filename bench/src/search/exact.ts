import pg from 'pg';
import type { Filters } from './questions.ts';

/** Reference results, computed by the database with simple queries and without the vector index. */
export type Exact = AsyncDisposable & {
  /** Returns the IDs of the nearest listings, by comparing all distances. */
  nearest(vector: readonly number[], filters: Filters, limit: number): Promise<number[]>;
  /**
   * Ranks the listings with all words, or those of them with the given IDs.
   * @returns The best ones with their ranks, and the number of ranked listings.
   */
  ranked(
    words: string,
    filters: Filters,
    options: { ids: number[] | undefined; limit: number },
  ): Promise<{ hits: [id: number, rank: number][]; count: number }>;
  /** Returns the share of listings that match the filters and are not archived. */
  share(filters: Filters): Promise<number>;
};

/** SQL column and operator of each filter. */
const CONDITIONS: Record<string, string> = {
  city: 'city =',
  source_slug: 'source_slug =',
  deal_type: 'deal_type =',
  area_min: 'area_total >=',
  area_max: 'area_total <=',
  rooms_min: 'rooms >=',
  rooms_max: 'rooms <=',
};

/** Connects to a database of listings; the end of the scope closes the connection. */
export async function openExact(databaseUrl: string): Promise<Exact> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query('set jit = off');

  async function runQuery<Row extends pg.QueryResultRow>(
    text: string,
    filters: Filters,
    ...parameters: unknown[]
  ): Promise<Row[]> {
    const conditions = Object.keys(filters).map((name, index) => {
      const condition = CONDITIONS[name];
      if (condition === undefined) throw new Error(`The filter ${name} has no SQL condition`);
      return `${condition} $${parameters.length + index + 1}`;
    });
    const where = ['archived_at is null', ...conditions].join(' and ');
    const values = [...parameters, ...Object.values(filters)];
    return (await client.query<Row>(text.replace('{filters}', where), values)).rows;
  }

  return {
    async nearest(vector, filters, limit) {
      const rows = await runQuery<{ id: string }>(
        `with every as materialized (
           select id, embedding <=> $1::vector as distance from property_listings where {filters})
         select id from every order by distance, id limit $2`,
        filters,
        `[${vector.join(',')}]`,
        limit,
      );
      return rows.map(({ id }) => Number(id));
    },
    async ranked(words, filters, { ids, limit }) {
      const rows = await runQuery<{ id: string; rank: number; count: string }>(
        `select id, ts_rank_cd(search_vector, query) as rank, count(*) over () as count
         from property_listings, plainto_tsquery('simple', $1) as query
         where search_vector @@ query and ($2::bigint[] is null or id = any ($2)) and {filters}
         order by rank desc, id desc limit $3`,
        filters,
        words,
        ids,
        limit,
      );
      const hits = rows.map(({ id, rank }): [number, number] => [Number(id), Math.fround(rank)]);
      return { hits, count: Number(rows[0]?.count ?? 0) };
    },
    async share(filters) {
      const rows = await runQuery<{ share: number }>(
        'select avg(({filters})::integer)::float8 as share from property_listings',
        filters,
      );
      return rows[0]?.share ?? 0;
    },
    [Symbol.asyncDispose]: () => client.end(),
  };
}
