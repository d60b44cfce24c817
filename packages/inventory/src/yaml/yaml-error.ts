import { MAX_IMPORT_DEPTH } from '../limits.ts';

/** The message about blocks and values beyond the limit of depth. */
export const TOO_DEEP = `it is nested more than ${MAX_IMPORT_DEPTH} levels deep; give a part of it, or make it flatter`;

/** A text is no YAML that can be read. The message is one line: what is wrong and what to do. */
export class YamlError extends Error {
  override name = 'YamlError';
  /** Where in the text it is wrong; undefined where it is beyond a limit, or an alias stands for nothing. */
  readonly offset: number | undefined;

  constructor(message: string, { offset, cause }: { offset?: number; cause?: unknown } = {}) {
    super(message, cause === undefined ? {} : { cause });
    this.offset = offset;
  }
}
