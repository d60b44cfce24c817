import type { Rule } from '../rule.ts';
import { blankField } from './blank-field.ts';
import { credentialsInUrl } from './credentials-in-url.ts';
import { duplicateId } from './duplicate-id.ts';
import { exposureAddress } from './exposure-address.ts';
import { hostName } from './host-name.ts';
import { ignore } from './ignore.ts';
import { likelyTypo } from './likely-typo.ts';
import { missingOwner } from './missing-owner.ts';
import { portRange } from './port-range.ts';
import { publicWithoutAuth } from './public-without-auth.ts';
import { reviewDate } from './review-date.ts';
import { staleReview } from './stale-review.ts';
import { urlMismatch } from './url-mismatch.ts';

/** All rules of the linter, in the order of their codes. */
export const rules: readonly Rule[] = [
  blankField,
  credentialsInUrl,
  duplicateId,
  exposureAddress,
  hostName,
  ignore,
  likelyTypo,
  missingOwner,
  portRange,
  publicWithoutAuth,
  reviewDate,
  staleReview,
  urlMismatch,
];
