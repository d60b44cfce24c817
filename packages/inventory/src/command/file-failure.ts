import { UsageError } from './usage-error.ts';

/** A failure to read as a wrong use; any other error as it is. */
export function readFailureAsUsage(error: unknown, label: string): unknown {
  const reason = readFailure(error, label);
  return reason === undefined ? error : new UsageError(reason, { cause: error });
}

/** A failure to write as a wrong use; any other error as it is. */
export function writeFailureAsUsage(error: unknown, label: string): unknown {
  const cause = causeOf(error, 'write');
  if (cause === undefined) return error;
  return new UsageError(`cannot write ${label}: ${cause}`, { cause: error });
}

/** Why a file could not be read, for people; undefined for what is no failure to read. */
export function readFailure(error: unknown, label: string): string | undefined {
  // Node gives such names with a sign for each byte, by which nothing can be found.
  const isNoText = label.includes('\u{FFFD}') && codeOf(error) === 'ENOENT';
  const cause = isNoText ? 'its name is no UTF-8; give it another one' : causeOf(error, 'read');
  return cause === undefined
    ? undefined
    : `cannot read ${label || 'a file without a name'}: ${cause}`;
}

function causeOf(error: unknown, doing: 'read' | 'write'): string | undefined {
  const code = codeOf(error);
  if (code === undefined) return undefined;
  if (code === 'Z_BUF_ERROR') return 'the gzip data ends too early; fetch the file again';
  if (code.startsWith('Z_')) return 'the gzip data is broken; fetch the file again';
  const told = CAUSES[doing][code];
  if (told !== undefined) return told;
  const isOfSystem = error instanceof Error && 'syscall' in error;
  return isOfSystem ? `${error.message}; check the path and its rights` : undefined;
}

function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

const COMMON = {
  ENOTDIR: 'what stands before a / is no folder; check the path',
  ELOOP: 'its symbolic links lead in a circle; name the file itself',
  ENOSPC: 'there is no space left; free some, and try again',
  // What Node says of files that fit into no string, and into no buffer.
  ERR_STRING_TOO_LONG: 'it is too large for what needs a file as a whole; cut it into smaller ones',
  ERR_FS_FILE_TOO_LARGE:
    'it is too large for what needs a file as a whole; cut it into smaller ones',
};

const CAUSES: Record<'read' | 'write', Partial<Record<string, string>>> = {
  read: {
    ...COMMON,
    ENOENT: 'there is no such file; check the path',
    EACCES: 'permission denied; ask for the right to read it',
    EISDIR: 'it is a folder; name the file in it',
  },
  write: {
    ...COMMON,
    ENOENT: 'there is no such folder; check the path',
    EACCES: 'permission denied; ask for the right to write there',
    EISDIR: 'it is a folder; name a file in it',
    EROFS: 'its file system can only be read; write elsewhere',
  },
};
