import { UsageError } from './usage-error.ts';

/** A failure to read as a wrong use; any other error as it is. */
export function readFailureAsUsage(error: unknown, label: string): unknown {
  const reason = readFailure(error, label);
  return reason === undefined ? error : new UsageError(reason, { cause: error });
}

/** Why a file could not be read, for people; undefined for what is no failure to read. */
export function readFailure(error: unknown, label: string): string | undefined {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') {
    return undefined;
  }
  const cause = causeOf(error.code, error);
  return cause === undefined ? undefined : `cannot read ${label}: ${cause}`;
}

function causeOf(code: string, error: Error): string | undefined {
  if (code === 'Z_BUF_ERROR') return 'the gzip data ends too early; fetch the file again';
  if (code.startsWith('Z_')) return 'the gzip data is broken; fetch the file again';
  if (!('syscall' in error)) return undefined;
  switch (code) {
    case 'ENOENT':
      return 'there is no such file; check the path';
    case 'EACCES':
      return 'permission denied; ask for the right to read it';
    case 'EISDIR':
      return 'it is a folder; name the file in it';
    default:
      return error.message;
  }
}
