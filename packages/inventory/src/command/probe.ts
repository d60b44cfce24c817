import { toDay } from '../day.ts';
import { jsonText, visible } from '../output/visible.ts';
import { count } from '../output/wording.ts';
import { probeAll } from '../probe/probe-all.ts';
import type { Observation } from '../probe/probe.ts';
import { choice, parseArguments, wholeNumber } from './arguments.ts';
import type { Command } from './command.ts';
import { oneFile } from './input-files.ts';
import { readText } from './read-text.ts';
import { SELECT_HELP, SELECT_OPTIONS, selectRecords } from './select-records.ts';

const FORMATS = ['text', 'json'] as const;

const HELP = `Connects to the endpoints of an inventory, each at the host and port that its record names and nowhere
else, and tells: whether it answers, how long its certificate lasts, and whether its addresses fit the
declared exposure. No other command opens a connection. FILE is as for \`validate\`.

Options:
${SELECT_HELP}
  --timeout SECONDS                 for each endpoint, in all (default: 5)
  --expiry-days N                   a certificate that ends sooner is a problem (default: 14)
  --concurrency N                   endpoints at once (default: 4)
  --per-second N                    endpoints that are begun within a second (default: 5)
  --ca FILE                         trust the certificates in FILE (PEM) instead of the usual ones
  --format text|json                how it is printed (default: text)
  --help                            print this text

Exit status: 0 nothing is wrong, 1 something is, 2 unreadable, invalid or wrong use.
`;

/** `oselya inventory probe` (Contract 5). */
export const probe: Command = {
  help: HELP,
  async run(argv, { io, out }) {
    const { values, positionals } = parseArguments('probe', argv, {
      ...SELECT_OPTIONS,
      timeout: { type: 'string' },
      'expiry-days': { type: 'string' },
      concurrency: { type: 'string' },
      'per-second': { type: 'string' },
      ca: { type: 'string' },
      format: { type: 'string' },
    });
    const file = await oneFile(positionals, 'probed');
    const format = choice('--format', FORMATS, values.format) ?? 'text';
    const options = {
      timeoutMs: 1000 * (wholeNumber('--timeout', 1, values.timeout) ?? 5),
      expiryDays: wholeNumber('--expiry-days', 0, values['expiry-days']) ?? 14,
      concurrency: wholeNumber('--concurrency', 1, values.concurrency) ?? 4,
      perSecond: wholeNumber('--per-second', 1, values['per-second']) ?? 5,
      ca: values.ca === undefined ? undefined : await readText(values.ca),
    };
    const found = await probeAll(await selectRecords(file, io, values), options);
    await out.write(format === 'json' ? `${jsonText(found, 2)}\n` : text(found));
    return found.some(({ problems }) => problems.length > 0) ? 1 : 0;
  },
};

function text(found: readonly Observation[]): string {
  const lines = found.map(line);
  const bad = found.filter(({ problems }) => problems.length > 0).length;
  const skipped = found.filter(({ isReachable }) => isReachable === null).length;
  const noted = skipped === 0 ? '' : `, ${skipped} not probed`;
  lines.push(`${count(found.length, 'endpoint')}, ${bad} with problems${noted}`);
  return lines.map((one) => `${visible(one)}\n`).join('');
}

function line({ id, target, isReachable, problems, certificate, answer }: Observation): string {
  const name = JSON.stringify(id);
  if (isReachable === null) return `skipped ${name}: the record says nowhere to connect to`;
  const [status, details] =
    problems.length > 0
      ? ['problem', problems.map(({ message, code }) => `${message} [${code}]`)]
      : ['ok     ', []];
  const facts = [
    ...(certificate === undefined ? [] : [`certificate to ${toDay(certificate.validTo)}`]),
    ...(answer === undefined ? [] : [`HTTP ${answer.status}`]),
    ...(answer?.redirectsTo ? [`redirects to ${answer.redirectsTo}, which was not followed`] : []),
  ];
  return `${status} ${name} ${target}: ${[...details, ...facts].join('; ') || 'it answers'}`;
}
