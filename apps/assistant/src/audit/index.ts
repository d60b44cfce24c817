/** The audit trail, as everybody else uses it. */

export { recordOthersData } from './others-data.ts';
export { recordAudit } from './record.sql.ts';
export { listAudit, sweepAudit } from './repository.ts';
export { auditRoutes } from './routes.ts';
