import { readDay } from '../../day.ts';
import { defineRule } from '../rule.ts';

/** Finds review dates that are no calendar days, or later than today. */
export const reviewDate = defineRule({
  code: 'lint/review-date',
  severity: 'error',
  begin:
    (_, { today }) =>
    ({ last_reviewed: written }) => {
      if (written === undefined || written.trim() === '') return [];
      const day = readDay(written);
      if (day !== null && day <= today) return [];
      const why =
        day === null
          ? 'is no day; write one that there is, as in 2026-11-20'
          : `has not come yet: today is ${today}`;
      return [{ key: 'last_reviewed', message: `${JSON.stringify(written)} ${why}` }];
    },
});
