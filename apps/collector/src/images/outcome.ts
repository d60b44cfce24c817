/** What became of one picture: stored bytes, or the reason why it cannot be used. */
export type ImageOutcome = { position: number; url: string | null } & (
  | {
      sha256: string;
      width: number;
      height: number;
      /** Whether these bytes were stored before. */
      duplicate: boolean;
    }
  | { error: string }
);

/** For metrics: new bytes, known ones, an address that was not fetched again, and a bad picture. */
export type ImageEvent = 'stored' | 'duplicate' | 'reused' | 'failed';
