import { randomUUID } from 'node:crypto';
import type { Caused } from './acts.ts';

/** What the page after an act says: what was done, and how its events fare. */
export type Notice = {
  message: string;
  deliveries: Caused;
};

/** Notices on their way from the act's answer, a redirect, to the page that it leads to. */
export type Notices = {
  /** Gives the id to ask for the notice with. */
  keep: (notice: Notice) => string;
  /** Gives a notice once, so that reloading the page does not claim the act anew. */
  take: (id: string) => Notice | undefined;
};

const maxKept = 20;

/** Keeps a few notices in memory; of those that nobody asks for the oldest go first. */
export function createNotices(): Notices {
  const kept = new Map<string, Notice>();
  return {
    keep(notice) {
      const id = randomUUID();
      kept.set(id, notice);
      for (const oldest of kept.keys()) {
        if (kept.size <= maxKept) break;
        kept.delete(oldest);
      }
      return id;
    },
    take(id) {
      const notice = kept.get(id);
      kept.delete(id);
      return notice;
    },
  };
}
