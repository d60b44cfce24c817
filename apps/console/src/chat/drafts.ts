/** Message that was sent, but is not known to be stored. */
export type SentMessage = { text: string; clientMessageId: string };

/** The members of the browser's `Storage` that drafts need. */
type DraftStorage = {
  getItem: (key: string) => string | null;
  setItem: (key: string, value: string) => void;
  removeItem: (key: string) => void;
};

/**
 * Stores what a user has typed and sent in the sessions, until the server has stored it or the tab is closed. It
 * survives a reload, and also a sign-out.
 */
export function createDraftStore(storage: DraftStorage, userId: string) {
  const getKey = (kind: 'draft' | 'sent', sessionId: string) =>
    `oselya-${kind} ${userId} ${sessionId}`;
  const write = (key: string, value: string | undefined) =>
    value === undefined ? storage.removeItem(key) : storage.setItem(key, value);
  return {
    /** Returns the text in the field of a session; undefined for none. */
    readDraft: (sessionId: string): string | undefined =>
      storage.getItem(getKey('draft', sessionId)) ?? undefined,
    writeDraft: (sessionId: string, text: string): void =>
      write(getKey('draft', sessionId), text || undefined),
    /** Returns the message of a session that waits for its confirmation. */
    readSent(sessionId: string): SentMessage | undefined {
      const stored = storage.getItem(getKey('sent', sessionId));
      return stored === null ? undefined : (JSON.parse(stored) as SentMessage);
    },
    writeSent: (sessionId: string, message: SentMessage | undefined): void =>
      write(getKey('sent', sessionId), message && JSON.stringify(message)),
  };
}

export type DraftStore = ReturnType<typeof createDraftStore>;
