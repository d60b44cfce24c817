import { X509Certificate } from 'node:crypto';
import { maskCredentials, maskId, maskRecord } from '../credentials.ts';
import { toDay } from '../day.ts';
import {
  MAX_CONCURRENT_PROBES,
  MAX_PROBES_PER_SECOND,
  type Observation,
  probeAll,
} from '../probe/probe.ts';
import { escapeInvisible, formatCount, formatJson } from '../text.ts';
import {
  createChoiceOption,
  type Command,
  createNumberOption,
  parseArguments,
  type Printer,
  textOption,
  UsageError,
} from './command.ts';
import {
  readText,
  resolveSingleFile,
  SELECT_HELP,
  SELECT_OPTIONS,
  selectRecords,
} from './files.ts';

const HELP = `Connects to the endpoints of an inventory, each at the host and port of its record and nowhere else, and
reports as soon as it is known: whether it answers, when its certificate expires, and whether its
addresses match the declared exposure. No other command opens a connection. FILE is as for \`validate\`.

Options:
${SELECT_HELP}
  --timeout SECONDS                 for each endpoint, in all, up to 600 (default: 5)
  --expiry-days N                   a certificate that expires sooner is a problem (default: 14)
  --concurrency N                   endpoints at once, up to 64 (default: 4)
  --per-second N                    endpoints to start per second, up to 1000 (default: 5)
  --ca FILE                         trust the certificates in FILE (PEM) instead of the usual ones
  --format text|json                the output format (default: text)
  --help                            print this text

Exit status: 0 no problems, 1 problems, 2 unreadable or invalid file, or usage error.
`;

/** `oselya inventory probe` (Contract 5). */
export const probeCommand: Command = {
  help: HELP,
  async run(argv, { io, out }) {
    const { values, positionals } = parseArguments('probe', argv, {
      ...SELECT_OPTIONS,
      // The default maximum would exceed the longest timer, which is about 25 days.
      timeout: createNumberOption({ min: 1, max: 600 }),
      'expiry-days': createNumberOption(),
      concurrency: createNumberOption({ min: 1, max: MAX_CONCURRENT_PROBES }),
      'per-second': createNumberOption({ min: 1, max: MAX_PROBES_PER_SECOND }),
      ca: textOption,
      format: createChoiceOption('text', 'json'),
    });
    const { timeout = 5, 'expiry-days': expiryDays = 14, concurrency = 4, ca } = values;
    const file = await resolveSingleFile(positionals, 'probed');
    const observations = probeAll(await selectRecords(file, io, values), {
      timeoutMs: 1000 * timeout,
      expiryDays,
      concurrency,
      perSecond: values['per-second'] ?? 5,
      ca: ca === undefined ? undefined : await readCertificates(ca),
    });
    const print = values.format === 'json' ? printJson : printText;
    return (await print(observations, out)) ? 1 : 0;
  },
};

async function printText(observations: AsyncIterable<Observation>, out: Printer): Promise<boolean> {
  const counts = { total: 0, withProblems: 0, skipped: 0 };
  for await (const observation of observations) {
    counts.total += 1;
    if (observation.problems.length > 0) counts.withProblems += 1;
    if (observation.isReachable === null) counts.skipped += 1;
    await out.write(`${escapeInvisible(formatObservation(observation))}\n`);
    if (out.isClosed) break;
  }
  const skippedNote = counts.skipped === 0 ? '' : `, ${counts.skipped} not probed`;
  await out.write(
    `${formatCount(counts.total, 'endpoint')}, ${counts.withProblems} with problems${skippedNote}\n`,
  );
  return counts.withProblems > 0;
}

async function printJson(observations: AsyncIterable<Observation>, out: Printer): Promise<boolean> {
  let hasProblems = false;
  let separator = '[';
  for await (const observation of observations) {
    hasProblems ||= observation.problems.length > 0;
    // The JSON round trip converts dates to strings.
    const serialized: Observation = JSON.parse(JSON.stringify(observation));
    const json = formatJson(maskRecord(serialized), 2).replaceAll('\n', '\n  ');
    await out.write(`${separator}\n  ${json}`);
    separator = ',';
    if (out.isClosed) break;
  }
  await out.write(separator === '[' ? '[]\n' : '\n]\n');
  return hasProblems;
}

/** Reads PEM certificates. @throws UsageError if the file is unreadable, or has no or an invalid certificate. */
async function readCertificates(file: string): Promise<string> {
  const text = await readText(file);
  const header = '-----BEGIN CERTIFICATE-----';
  const certificates = text.split(header).slice(1);
  if (certificates.length === 0) {
    throw new UsageError(`${file} has no certificate; --ca takes certificates as PEM`);
  }
  // TLS would silently ignore an invalid certificate.
  for (const [index, body] of certificates.entries()) {
    try {
      void new X509Certificate(header + body);
    } catch (cause) {
      const message = `certificate ${index + 1} in ${file} is invalid; fetch it again, or remove it`;
      throw new UsageError(message, { cause });
    }
  }
  return text;
}

function formatObservation(observation: Observation): string {
  const { id, target, isReachable, problems, certificate, answer } = observation;
  const name = JSON.stringify(maskId(id));
  if (isReachable === null) {
    return target === null
      ? `skipped ${name}: the record names no host and port`
      : `skipped ${name}: ${maskCredentials(target)} uses datagrams, such as UDP, which are not probed`;
  }
  const details = problems.map(({ message, code }) => `${message} [${code}]`);
  if (certificate !== undefined) details.push(`certificate to ${toDay(certificate.validTo)}`);
  if (answer !== undefined) details.push(`HTTP ${answer.status}`);
  const redirect = answer?.redirectsTo;
  if (redirect) details.push(`redirects to ${redirect}, which was not followed`);
  const status = problems.length > 0 ? 'problem' : 'ok     ';
  const text = `${target}: ${details.join('; ') || 'it answers'}`;
  return `${status} ${name} ${maskCredentials(text)}`;
}
