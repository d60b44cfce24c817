import { createReadStream, existsSync } from 'node:fs';
import { glob, stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { MAX_TEXT_BYTES } from '../limits.ts';
import { type InventoryFormat, isGzip, readUtf8 } from '../read/input.ts';
import { InvalidInventoryError, type PlacedRecord, readRecords } from '../read/inventory-reader.ts';
import { type EndpointRecord, EXPOSURES } from '../record.ts';
import {
  createChoiceOption,
  INPUT_FORMAT_HELP,
  INPUT_FORMAT_OPTION,
  type InventoryIo,
  type OptionValues,
  textOption,
  UsageError,
} from './command.ts';

/**
 * Resolves arguments to files: `-` for standard input, paths, and patterns such as `hosts/*.json`. An
 * argument that names an existing file is never a pattern.
 * @throws UsageError if there are no arguments or no matches, or if standard input is repeated.
 */
export async function resolveInputFiles(args: readonly string[]): Promise<string[]> {
  if (args.length === 0) {
    throw new UsageError('no file specified; name a FILE, or - for standard input');
  }
  if (args.filter((file) => file === '-').length > 1) {
    throw new UsageError('standard input can be read once; specify - once');
  }
  const files = args.map(async (arg) => {
    return /[*?[\]{}]/.test(arg) && !existsSync(arg) ? findMatches(arg) : [arg];
  });
  return [...new Set((await Promise.all(files)).flat())];
}

/**
 * Resolves the file argument of a command that reads one file.
 * @param purpose Participle for the error message, such as `exported`.
 * @throws UsageError if there is not exactly one file.
 */
export async function resolveSingleFile(args: readonly string[], purpose: string): Promise<string> {
  const [file, ...extraFiles] = args.length === 1 ? await resolveInputFiles(args) : args;
  if (file !== undefined && extraFiles.length === 0) return file;
  throw new UsageError(
    args.length === 1
      ? `one file is ${purpose}, and ${extraFiles.length + 1} match ${args[0]}`
      : `one file is ${purpose}: specify FILE, or - for standard input`,
  );
}

async function findMatches(pattern: string): Promise<string[]> {
  const files = await Array.fromAsync(glob(pattern), async (path) => {
    // Skips folders and pipes, which match too. Keeps a broken link, which the later read reports.
    const stats = await stat(path).catch(() => null);
    return stats === null || stats.isFile() ? [path] : [];
  });
  if (files.flat().length > 0) return files.flat().toSorted();
  throw new UsageError(`no file matches ${pattern}; check the path`);
}

/** Returns the file name for messages. */
export function formatFileLabel(file: string): string {
  return file === '-' ? '<stdin>' : file;
}

/**
 * Yields the records from a file, or from standard input for `-`.
 * @throws UsageError if the file cannot be read or is invalid.
 */
export async function* readInput(
  file: string,
  io: InventoryIo,
  format: InventoryFormat | undefined,
): AsyncGenerator<PlacedRecord> {
  const options = { file: formatFileLabel(file), ...(format && { format }) };
  try {
    yield* readRecords(file === '-' ? io.stdin : { path: file }, options);
  } catch (error) {
    if (!(error instanceof InvalidInventoryError)) throw toReadError(error, formatFileLabel(file));
    const helpArguments = file === '-' ? undefined : `validate ${file}`;
    throw new UsageError(error.message, { helpArguments, cause: error });
  }
}

/** Options for commands that select records from a file. */
export const SELECT_OPTIONS = {
  type: { ...textOption, multiple: true },
  exposure: { ...createChoiceOption(...EXPOSURES), multiple: true },
  ...INPUT_FORMAT_OPTION,
} as const;

export const SELECT_HELP = `  --type TYPE                       only records of this type, such as metrics; repeatable
  --exposure EXPOSURE               only records of this exposure, such as public; repeatable
${INPUT_FORMAT_HELP}`;

/**
 * Returns the records that match the options. Without options, returns all records.
 * @throws UsageError if the file cannot be read or is invalid.
 */
export async function selectRecords(
  file: string,
  io: InventoryIo,
  { type, exposure, 'input-format': format }: OptionValues<typeof SELECT_OPTIONS>,
): Promise<EndpointRecord[]> {
  const records = [];
  for await (const { value } of readInput(file, io, format)) {
    const isSelected =
      (type?.includes(value.type) ?? true) && (exposure?.includes(value.exposure) ?? true);
    if (isSelected) records.push(value);
  }
  return records;
}

/**
 * Reads the text of a configuration or other file. With `io`, `-` means standard input.
 * @param advice Advice for a file that exceeds the size limit.
 * @throws UsageError if the file cannot be read, is compressed, is not UTF-8, or exceeds the size limit.
 */
export async function readText(
  file: string,
  {
    io,
    maxBytes = MAX_TEXT_BYTES,
    advice = 'use only a part of it',
  }: { io?: InventoryIo; maxBytes?: number; advice?: string } = {},
): Promise<string> {
  const stdin = file === '-' ? io?.stdin : undefined;
  const label = stdin === undefined ? file : '<stdin>';
  const createReadError = (reason: string) => new UsageError(`cannot read ${label}: ${reason}`);
  const chunks: Uint8Array[] = [];
  let byteCount = 0;
  try {
    for await (const chunk of stdin ?? createReadStream(file)) {
      byteCount += chunk.length;
      const limit = maxBytes / 1024 / 1024;
      if (byteCount > maxBytes) throw createReadError(`it is larger than ${limit} MiB; ${advice}`);
      chunks.push(chunk);
    }
  } catch (error) {
    throw toReadError(error, label);
  }
  const content = Buffer.concat(chunks);
  if (isGzip(content)) throw createReadError('it is compressed with gzip; decompress it first');
  let text = '';
  for await (const piece of readUtf8(Readable.from([content]))) {
    if (Buffer.isBuffer(piece)) text += piece.toString();
    else if (piece.code !== 'encoding/bom') throw createReadError(piece.message);
  }
  return text;
}

/** Converts a read failure to a UsageError. Returns other errors unchanged. */
export function toReadError(error: unknown, label: string): unknown {
  // Node replaces invalid UTF-8 in arguments, so a file with such a name cannot be found.
  const isBadName = label.includes('\u{FFFD}') && getErrorCode(error) === 'ENOENT';
  const reason = isBadName ? 'its name is not UTF-8; rename it' : getFailureReason(error, 'read');
  if (reason === undefined) return error;
  const message = `cannot read ${label || 'a file without a name'}: ${reason}`;
  return new UsageError(message, { cause: error });
}

/** Converts a write failure to a UsageError. Returns other errors unchanged. */
export function toWriteError(error: unknown, label: string): unknown {
  const reason = getFailureReason(error, 'write');
  if (reason === undefined) return error;
  return new UsageError(`cannot write ${label}: ${reason}`, { cause: error });
}

const TOO_LARGE_REASON = 'it is too large to be read whole; split it';

const FAILURE_REASONS: Partial<Record<string, string>> = {
  ENOTDIR: 'a part of its path is not a folder; check the path',
  ELOOP: 'its symbolic links form a loop; name the file itself',
  ENOSPC: 'there is no space left; free some and try again',
  EISDIR: 'it is a folder; name a file in it',
  EROFS: 'its file system is read-only; write elsewhere',
  ERR_STRING_TOO_LONG: TOO_LARGE_REASON,
  ERR_FS_FILE_TOO_LARGE: TOO_LARGE_REASON,
  Z_BUF_ERROR: 'the gzip data ends too early; fetch the file again',
  'read ENOENT': 'there is no such file; check the path',
  'write ENOENT': 'there is no such folder; check the path',
  'read EACCES': 'permission denied; ask for the right to read it',
  'write EACCES': 'permission denied; ask for the right to write there',
};

function getFailureReason(error: unknown, action: 'read' | 'write'): string | undefined {
  const code = getErrorCode(error);
  if (code === undefined || !(error instanceof Error)) return undefined;
  const reason = FAILURE_REASONS[code] ?? FAILURE_REASONS[`${action} ${code}`];
  if (reason !== undefined) return reason;
  if (code.startsWith('Z_')) return 'the gzip data is invalid; fetch the file again';
  return 'syscall' in error ? `${error.message}; check the path and its permissions` : undefined;
}

function getErrorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}
