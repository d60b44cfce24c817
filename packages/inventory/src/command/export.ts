import { hostsLines } from '../export/hosts.ts';
import { blackboxTargets, type Exported, prometheusTargets } from '../export/targets.ts';
import { jsonList } from '../output/visible.ts';
import { count } from '../output/wording.ts';
import type { EndpointRecord } from '../record.ts';
import { choice, parseArguments } from './arguments.ts';
import type { Command } from './command.ts';
import { oneFile } from './input-files.ts';
import { SELECT_HELP, SELECT_OPTIONS, selectRecords } from './select-records.ts';
import { UsageError } from './usage-error.ts';

const TARGETS = ['prometheus', 'blackbox', 'hosts'] as const;

const HELP = `Prints the records of an inventory for what watches over endpoints. FILE is as for \`validate\`.

Options:
  --target prometheus|blackbox|hosts
      prometheus   targets to scrape, for file_sd_configs of Prometheus
      blackbox     targets to probe, for file_sd_configs of a job of the blackbox exporter
      hosts        lines of a hosts file: the addresses with their domains
${SELECT_HELP}
  --help                            print this text

Exit status: 0 printed, 2 unreadable, invalid or wrong use.
`;

/** `oselya inventory export` (Contract 5). */
export const exportCommand: Command = {
  help: HELP,
  async run(argv, { io, out, tell }) {
    const { values, positionals } = parseArguments('export', argv, {
      target: { type: 'string' },
      ...SELECT_OPTIONS,
    });
    const file = await oneFile(positionals, 'exported');
    const target = choice('--target', TARGETS, values.target);
    if (target === undefined) throw new UsageError(`give --target ${TARGETS.join('|')}`);
    const { pieces, leftOut, withCredentials } = write(
      await selectRecords(file, io, values),
      target,
    );
    await out.writeAll(pieces);
    if (leftOut > 0) {
      const wanted =
        target === 'hosts'
          ? 'host that is an IP address and domain'
          : 'address or protocol that fits';
      tell(`${count(leftOut, 'record')} left out: no ${wanted}`);
    }
    if (withCredentials > 0) {
      const which = count(withCredentials, 'address', 'addresses');
      tell(`${which} printed without credentials; set them where they are used`);
    }
    return 0;
  },
};

function write(
  records: readonly EndpointRecord[],
  target: (typeof TARGETS)[number],
): { pieces: Iterable<string>; leftOut: number; withCredentials: number } {
  if (target === 'hosts') {
    const { entries, ...counts } = hostsLines(records);
    return { pieces: lines(entries), ...counts };
  }
  const { entries, ...counts }: Exported<object> =
    target === 'prometheus' ? prometheusTargets(records) : blackboxTargets(records);
  return { pieces: document(entries), ...counts };
}

function* lines(entries: Iterable<string>): Generator<string> {
  for (const entry of entries) yield `${entry}\n`;
}

function* document(entries: Iterable<object>): Generator<string> {
  yield* jsonList(entries);
  yield '\n';
}
