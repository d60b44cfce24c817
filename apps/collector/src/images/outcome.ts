/** What became of a picture that came along: stored bytes, or the reason why it cannot be used. */
export type UploadOutcome =
  | {
      sha256: string;
      width: number;
      height: number;
      /** Whether these bytes were stored before. */
      duplicate: boolean;
    }
  | { error: string };

/** Why an address gave no picture. */
export type Miss = {
  error: string;
  /** From when on it may be asked again, RFC 3339; missing where that would be of no use. */
  retry_at?: string;
};

/** What became of one picture of a listing. */
export type ImageOutcome = { position: number; url: string | null } & (UploadOutcome | Miss);

/** For metrics: new bytes, known ones, an address that was not fetched again, and a bad picture. */
export type ImageEvent = 'stored' | 'duplicate' | 'reused' | 'failed';
