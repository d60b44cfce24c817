import type { Finding } from '../finding.ts';

/** How the validation of one file ended. */
export type FileResult = {
  file: string;
  status: 'valid' | 'invalid' | 'unreadable';
  /** Not there when reading failed. */
  records?: number;
  errors: number;
  warnings: number;
  /** How many findings the baseline has; only where there are some. */
  hidden?: number;
  /** How many findings are silenced beside their records; only where there are some. */
  silenced?: number;
  /** False when the file was not read to its end. */
  isComplete: boolean;
  /** Why the file could not be read. */
  reason?: string;
};

/**
 * Turns findings into the text of one output format, piece by piece, so that nothing is kept until
 * the end. What it gives is written in the order of the calls.
 */
export type Reporter = {
  begin(): string;
  finding(finding: Finding): string;
  fileEnd(result: FileResult): string;
  end(exitStatus: number): string;
};
