/** What `explain (format json)` says of a step. */
export type ExplainedNode = {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'CTE Name'?: string;
  'Scan Direction'?: string;
  Plans?: ExplainedNode[];
};

/**
 * A plan as people review it: its steps and the indexes that they use, without costs and values, one step a
 * line, what it reads from below it.
 */
export function planText(node: ExplainedNode, depth = 0): string {
  const { Plans: plans = [] } = node;
  const words = [
    node['Node Type'],
    node['Scan Direction'] === 'Backward' ? 'backward' : undefined,
    node['Index Name'] && `using ${node['Index Name']}`,
    node['Relation Name'] && `on ${node['Relation Name']}`,
    node['CTE Name'] && `on ${node['CTE Name']}`,
  ].filter((word) => word !== undefined);
  const line = `${'  '.repeat(depth)}${words.join(' ')}\n`;
  return line + plans.map((plan) => planText(plan, depth + 1)).join('');
}
