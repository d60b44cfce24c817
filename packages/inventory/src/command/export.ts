import { hostsLines } from '../export/hosts.ts';
import { blackboxTargets, type Exported, prometheusTargets } from '../export/targets.ts';
import { count } from '../output/wording.ts';
import type { EndpointRecord } from '../record.ts';
import { choice, parseArguments } from './arguments.ts';
import type { Command } from './command.ts';
import { readInput } from './read-input.ts';
import { UsageError } from './usage-error.ts';

const TARGETS = ['prometheus', 'blackbox', 'hosts'] as const;

const HELP = `Prints the records of an inventory for what watches over endpoints. FILE is as for \`validate\`.

Options:
  --target prometheus|blackbox|hosts
      prometheus   targets to scrape, for file_sd_configs of Prometheus
      blackbox     targets to probe, for file_sd_configs of a job of the blackbox exporter
      hosts        lines of a hosts file: the addresses with their domains
  --type TYPE                       only records of this type, such as metrics; can be given again
  --exposure EXPOSURE               only records of this exposure; can be given again
  --input-format json|jsonl         how FILE is read, whatever its name
  --help                            print this text

Exit status: 0 printed, 2 unreadable, invalid or wrong use.
`;

/** `oselya inventory export` (Contract 5). */
export const exportCommand: Command = {
  usage: 'FILE',
  summary: 'print records for Prometheus, the blackbox exporter or a hosts file',
  help: HELP,
  async run(argv, { io, out, tell }) {
    const { values, positionals } = parseArguments('export', argv, {
      target: { type: 'string' },
      type: { type: 'string', multiple: true },
      exposure: { type: 'string', multiple: true },
      'input-format': { type: 'string' },
    });
    const [file, ...more] = positionals;
    if (file === undefined || more.length > 0) {
      throw new UsageError('one file is exported: give FILE, or - for standard input');
    }
    const target = choice('--target', TARGETS, values.target);
    if (target === undefined) throw new UsageError(`give --target ${TARGETS.join('|')}`);
    const format = choice('--input-format', ['json', 'jsonl'], values['input-format']);
    const read = await Array.fromAsync(readInput(file, { io, format }));
    const { type, exposure } = values;
    const records = read
      .map(({ value }) => value)
      .filter((record) => type?.includes(record.type) ?? true)
      .filter((record) => exposure?.includes(record.exposure) ?? true);
    const { text, leftOut } = write(records, target);
    await out.write(text);
    if (leftOut > 0) {
      const wanted =
        target === 'hosts' ? 'host that is an IP address and domain' : 'address that fits';
      tell(`${count(leftOut, 'record')} left out: no ${wanted}`);
    }
    return 0;
  },
};

function write(
  records: readonly EndpointRecord[],
  target: (typeof TARGETS)[number],
): { text: string; leftOut: number } {
  if (target === 'hosts') {
    const { entries, leftOut } = hostsLines(records);
    return { text: entries.map((line) => `${line}\n`).join(''), leftOut };
  }
  const { entries, leftOut }: Exported<object> =
    target === 'prometheus' ? prometheusTargets(records) : blackboxTargets(records);
  return { text: `${JSON.stringify(entries, null, 2)}\n`, leftOut };
}
