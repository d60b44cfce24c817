import type { Kysely, KyselyPlugin, RootOperationNode } from 'kysely';
import type { Tables } from '../../src/tables.ts';

type Plan = {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: Plan[];
};

const nodesOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];

function explained(node: RootOperationNode): RootOperationNode {
  if (node.kind !== 'RawNode') return node;
  const [first = '', ...rest] = node.sqlFragments;
  return { ...node, sqlFragments: [`explain (analyze, format json) ${first}`, ...rest] };
}

/**
 * Returns the plans of the statements of `sql` that some work executes. To the work each seems to return no rows.
 * @returns The indexes that they use, the kinds of their nodes, and how many payloads they read.
 */
export async function explain(db: Kysely<Tables>, work: (db: Kysely<Tables>) => Promise<unknown>) {
  const nodes: Plan[] = [];
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => explained(node),
    transformResult({ result }) {
      for (const row of result.rows) {
        const [{ Plan }] = row['QUERY PLAN'] as [{ Plan: Plan }];
        nodes.push(...nodesOf(Plan));
      }
      return Promise.resolve({ ...result, rows: [] });
    },
  };
  await work(db.withPlugin(plugin));
  const ofPayloads = nodes.filter((node) => node['Relation Name'] === 'raw_data');
  return {
    kinds: new Set(nodes.map((node) => node['Node Type'])),
    indexes: [...new Set(nodes.flatMap((node) => node['Index Name'] ?? []))].toSorted(),
    rowsRead: ofPayloads.reduce(
      (sum, node) =>
        sum + (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'],
      0,
    ),
  };
}
