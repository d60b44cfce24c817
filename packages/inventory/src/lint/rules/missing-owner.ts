import { simpleRule } from '../rule.ts';

/** Finds records that do not say who runs the endpoint. */
export const missingOwner = simpleRule('lint/missing-owner', 'warning', ({ owner_host: owner }) =>
  owner === undefined
    ? [{ key: '', message: 'the record has no owner_host; name the machine or team that runs it' }]
    : [],
);
