/** The queue, as everybody else uses it. */

export { claimAgain, type JobAgain } from './claim-again.sql.ts';
export { claimJobs } from './claim.sql.ts';
export { heldClaim, heldListing } from './fence.sql.ts';
export { queueReads } from './figures.sql.ts';
export { createQueueFigures, type ReadQueue } from './figures.ts';
export { CHANNEL } from './notifications.sql.ts';
export { createNotifications, type Notifications } from './notifications.ts';
export { createInlineJobs, type InlineJobs } from './inline.ts';
export { type Fence, type Job, LeaseLostError, SupersededError } from './job.ts';
export { expireLeases } from './leases.sql.ts';
export { registerQueueMetrics } from './metrics.ts';
export { outlastOutages, type Patience, RepeatedOutageError } from './outlast-outages.ts';
export { processName } from './process-name.ts';
export { isAwaited } from './processed.sql.ts';
export {
  findRetryState,
  putBackOne,
  putBackSome,
  readTime,
  type RetryStatus,
} from './put-back.sql.ts';
export { release } from './release.sql.ts';
export type { JobOutcome, ProcessJob, ProcessResult } from './run-job.ts';
export { costWith } from './transitions.sql.ts';
export { startWorker } from './worker.ts';
