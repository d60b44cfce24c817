/** Everything that the audit trail tells of. Contract 3, Further endpoints. */
export const auditActions = [
  /** Somebody signed in, out, or ended another sign-in of their own. */
  'signed_in',
  'signed_out',
  'sign_in_ended',
  /** All sign-ins of a user, or of everybody, were ended: by an admin, or by the provider's webhook. */
  'sign_ins_ended',
  /** The provider rejected the tokens of a session, which ended with that. */
  'session_rejected',
  /** A sign-in that began here came back from the provider, and came to nothing. */
  'sign_in_failed',
  /** The cached role changed: at the provider, by its webhook, or by an admin. */
  'role_changed',
  'access_cleared',
  /** Data without an owner got one. */
  'legacy_assigned',
  /** Somebody read or changed what is another's. */
  'others_data_read',
  'others_data_changed',
  /** Somebody took all of their own data along, or had it deleted. */
  'own_data_exported',
  'own_data_deleted',
  /** Somebody asked for another availability of a profile, which its file decides. */
  'profile_availability_asked',
] as const;

/** One of them. */
export type AuditAction = (typeof auditActions)[number];
