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
  const cause = causeOf(error, 'read');
  return cause === undefined
    ? undefined
    : `cannot read ${label || 'a file without a name'}: ${cause}`;
}

function causeOf(error: unknown, doing: 'read' | 'write'): string | undefined {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') {
    return undefined;
  }
  const { code } = error;
  if (code === 'Z_BUF_ERROR') return 'the gzip data ends too early; fetch the file again';
  if (code.startsWith('Z_')) return 'the gzip data is broken; fetch the file again';
  const told = CAUSES[doing][code];
  if (told !== undefined) return told;
  return 'syscall' in error ? `${error.message}; check the path and its rights` : undefined;
}

const COMMON = {
  ENOTDIR: 'what stands before a / is no folder; check the path',
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
