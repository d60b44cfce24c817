import type { UploadOutcome } from '../tables.ts';

/** Why an address gave no picture. */
export type Miss = {
  error: string;
  /** From when on it may be asked again, RFC 3339; missing where that would be of no use. */
  retry_at?: string;
};

/** What became of one picture of a listing. */
export type ImageOutcome = { position: number; url: string | null } & (UploadOutcome | Miss);

/**
 * For metrics: new bytes, known ones, an address that was not fetched again, and a bad picture; and one more
 * for a stored picture that could not be described.
 */
export type ImageEvent = 'stored' | 'duplicate' | 'reused' | 'failed' | 'undescribed';
