import type { EndpointRecord } from '../../record.ts';
import { addDays, daysBetween, readDay } from '../../day.ts';
import { defineRule } from '../rule.ts';

type Options = {
  /** How old a review may be. */
  days: number;
  /** The same for endpoints of one exposure. */
  days_by_exposure: Partial<Record<EndpointRecord['exposure'], number>>;
};

/** Beyond this, the limit is compared by the age: not every number of days before today is a day. */
const MAX_EXACT_DAYS = 36_500;

const DAYS = { type: 'integer', minimum: 1 };

/** Finds records whose last review was too long ago. */
export const staleReview = defineRule<Options>({
  code: 'lint/stale-review',
  severity: 'warning',
  defaults: { days: 365, days_by_exposure: {} },
  options: {
    days: DAYS,
    days_by_exposure: {
      type: 'object',
      properties: { public: DAYS, vpn: DAYS, local: DAYS, private: DAYS, unknown: DAYS },
      additionalProperties: false,
    },
  },
  begin({ days, days_by_exposure: byExposure }, { today }) {
    const oldest = addDays(today, -Math.min(days, ...Object.values(byExposure), MAX_EXACT_DAYS));
    return ({ last_reviewed: written, exposure }) => {
      const day = written === undefined ? null : readDay(written);
      // Most reviews are younger than every limit.
      if (day === null || day >= oldest) return [];
      const age = daysBetween(day, today);
      const most = (exposure === undefined ? undefined : byExposure[exposure]) ?? days;
      if (age <= most) return [];
      return [
        {
          key: 'last_reviewed',
          message: `the last review was ${age} days ago, and ${most} are allowed; look at the endpoint again and write today's date`,
        },
      ];
    };
  },
});
