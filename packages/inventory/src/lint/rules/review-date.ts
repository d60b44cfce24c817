import { type Day, addDays, readDay } from '../../day.ts';
import { quoted } from '../../shorten.ts';
import { defineRule } from '../rule.ts';

/**
 * Finds review dates that are no calendar days, or later than today. Today is a day of UTC, and it is tomorrow
 * already east of it: one day more is no fault.
 */
export const reviewDate = defineRule({
  code: 'lint/review-date',
  severity: 'error',
  begin(_, { today }) {
    const tomorrow = addDays(today, 1);
    return ({ last_reviewed: written }) => {
      if (written === undefined || written.trim() === '') return [];
      const day = readDay(written);
      if (day !== null && day <= tomorrow) return [];
      const why =
        day === null
          ? 'is no day; write one that there is, as in 2026-11-20'
          : `has not come yet, as today is ${today}; write the day of the last review`;
      const meant = day === null ? dayOf(written) : null;
      return [
        {
          key: 'last_reviewed',
          message: `${quoted(written)} ${why}`,
          ...(meant !== null && { mended: meant }),
        },
      ];
    };
  },
});

/** A day of which the year comes first is certain however it is written, as in 2026/1/5 or 2026.01.05. */
function dayOf(written: string): Day | null {
  const [, year, month = '', day = ''] =
    /^\s*(\d{4})[-/. ](\d{1,2})[-/. ](\d{1,2})\s*$/.exec(written) ?? [];
  if (year === undefined) return null;
  return readDay(`${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`);
}
