import type { EndpointRecord } from '../../record.ts';
import { daysBetween, readDay } from '../../day.ts';
import { defineRule } from '../rule.ts';

type Options = {
  /** How old a review may be. */
  days: number;
  /** The same for endpoints of one exposure. */
  days_by_exposure: Partial<Record<EndpointRecord['exposure'], number>>;
};

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
  begin:
    ({ days, days_by_exposure: byExposure }, { today }) =>
    ({ last_reviewed: written, exposure }) => {
      const day = written === undefined ? null : readDay(written);
      if (day === null) return [];
      const age = daysBetween(day, today);
      const most = (exposure === undefined ? undefined : byExposure[exposure]) ?? days;
      if (age <= most) return [];
      return [
        {
          key: 'last_reviewed',
          message: `the last review was ${age} days ago, and ${most} are allowed; look at the endpoint again and write today's date`,
        },
      ];
    },
});
