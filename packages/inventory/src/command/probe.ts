import { X509Certificate } from 'node:crypto';
import { toDay } from '../day.ts';
import { jsonText, visible } from '../output/visible.ts';
import { count } from '../output/wording.ts';
import { MAX_PROBES_AT_ONCE, MAX_PROBES_PER_SECOND, probeAll } from '../probe/probe-all.ts';
import { maskCredentials, maskId, maskRecord } from '../credentials.ts';
import type { Printer } from '../output/printer.ts';
import { UsageError } from './usage-error.ts';
import type { Observation } from '../probe/probe.ts';
import { choice, parseArguments, wholeNumber } from './arguments.ts';
import type { Command } from './command.ts';
import { oneFile } from './input-files.ts';
import { readText } from './read-text.ts';
import { SELECT_HELP, SELECT_OPTIONS, selectRecords } from './select-records.ts';

const FORMATS = ['text', 'json'] as const;

/** The greatest `--timeout`: nobody waits longer, and timers take no more than some weeks. */
const MAX_TIMEOUT_SECONDS = 600;

const HELP = `Connects to the endpoints of an inventory, each at the host and port that its record names and nowhere
else, and tells: whether it answers, how long its certificate lasts, and whether its addresses fit the
declared exposure. Each is told as soon as it was looked at. No other command opens a connection. FILE is as for \`validate\`.

Options:
${SELECT_HELP}
  --timeout SECONDS                 for each endpoint, in all, up to 600 (default: 5)
  --expiry-days N                   a certificate that ends sooner is a problem (default: 14)
  --concurrency N                   endpoints at once, up to 64 (default: 4)
  --per-second N                    endpoints that are begun within a second, up to 1000 (default: 5)
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
      timeoutMs: 1000 * (wholeNumber('--timeout', 1, values.timeout, MAX_TIMEOUT_SECONDS) ?? 5),
      expiryDays: wholeNumber('--expiry-days', 0, values['expiry-days']) ?? 14,
      concurrency: wholeNumber('--concurrency', 1, values.concurrency, MAX_PROBES_AT_ONCE) ?? 4,
      perSecond: wholeNumber('--per-second', 1, values['per-second'], MAX_PROBES_PER_SECOND) ?? 5,
      ca: values.ca === undefined ? undefined : await readCertificates(values.ca),
    };
    const records = await selectRecords(file, io, values);
    return format === 'json'
      ? tellAsJson(probeAll(records, options), out)
      : tellAsText(probeAll(records, options), out);
  },
};

type Observations = AsyncIterable<Observation>;

/** A line for each endpoint as soon as it was looked at, and a count at the end. */
async function tellAsText(observations: Observations, out: Printer): Promise<number> {
  const counts = { all: 0, bad: 0, skipped: 0 };
  for await (const found of observations) {
    counts.all += 1;
    if (found.problems.length > 0) counts.bad += 1;
    if (found.isReachable === null) counts.skipped += 1;
    await out.write(`${visible(line(found))}\n`);
    if (out.isClosed) break;
  }
  const noted = counts.skipped === 0 ? '' : `, ${counts.skipped} not probed`;
  await out.write(`${count(counts.all, 'endpoint')}, ${counts.bad} with problems${noted}\n`);
  return counts.bad > 0 ? 1 : 0;
}

/** One list, of which each item is printed as soon as the endpoint was looked at. */
async function tellAsJson(observations: Observations, out: Printer): Promise<number> {
  let isBad = false;
  let separator = '[';
  for await (const found of observations) {
    isBad ||= found.problems.length > 0;
    const item = jsonText(maskRecord(toJson(found)), 2).replaceAll('\n', '\n  ');
    await out.write(`${separator}\n  ${item}`);
    separator = ',';
    if (out.isClosed) break;
  }
  await out.write(separator === '[' ? '[]\n' : '\n]\n');
  return isBad ? 1 : 0;
}

/** An observation as JSON has it, in which dates are texts. */
function toJson(found: Observation): { id: string } {
  return JSON.parse(JSON.stringify(found));
}

/** @throws UsageError when the file, or a certificate in it, cannot be read, or it has none. */
async function readCertificates(file: string): Promise<string> {
  const text = await readText(file);
  const certificates = text.split(/(?=-----BEGIN CERTIFICATE-----)/).filter(isBegun);
  if (certificates.length === 0) {
    throw new UsageError(`${file} has no certificate; --ca takes certificates as PEM`);
  }
  // One that cannot be read would be passed over where it is used, and what it signed not be trusted.
  const broken = certificates.findIndex((part) => !isCertificate(part));
  if (broken === -1) return text;
  throw new UsageError(
    `certificate ${broken + 1} in ${file} cannot be read; fetch it again, or remove it`,
  );
}

function isBegun(part: string): boolean {
  return part.startsWith('-----BEGIN CERTIFICATE-----');
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0;
  } catch {
    return false;
  }
}

function line({ id, target, isReachable, problems, certificate, answer }: Observation): string {
  const name = JSON.stringify(maskId(id));
  if (isReachable === null) {
    const why =
      target === null
        ? 'the record says nowhere to connect to'
        : `${maskCredentials(target)} takes datagrams, such as UDP, which are not probed`;
    return `skipped ${name}: ${why}`;
  }
  const [status, details] =
    problems.length > 0
      ? ['problem', problems.map(({ message, code }) => `${message} [${code}]`)]
      : ['ok     ', []];
  const facts = [
    ...(certificate === undefined ? [] : [`certificate to ${toDay(certificate.validTo)}`]),
    ...(answer === undefined ? [] : [`HTTP ${answer.status}`]),
    ...(answer?.redirectsTo ? [`redirects to ${answer.redirectsTo}, which was not followed`] : []),
  ];
  const told = `${target}: ${[...details, ...facts].join('; ') || 'it answers'}`;
  return `${status} ${name} ${maskCredentials(told)}`;
}
