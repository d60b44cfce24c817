/** Whether an error says that a file or a folder is not there. */
export function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** The same of an object of the image store, be it a file or in a bucket: what lies beneath the error says it too. */
export function isNotThere(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return isMissing(error) || error.name === 'NoSuchKey' || isNotThere(error.cause);
}

/** What a failure is caught with whose file or folder may not be there: gives this value then, and else throws it on. */
export function ifMissing<Value>(value: Value): (error: unknown) => Value {
  return (error) => {
    if (isMissing(error)) return value;
    throw error;
  };
}
