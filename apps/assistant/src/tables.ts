import type { ColumnType, Generated } from 'kysely';

/** A timestamp that the database sets unless it is given. */
type DefaultedTimestamp = ColumnType<Date, Date | undefined, Date>;

/** The assistant's tables. Specification 000, Resources and their fields; Contract 3, Tables. */
export type Tables = {
  svc_users: {
    id: string;
    email: string;
    display_name: string | null;
    role: string;
    /** A JSON array of permission slugs. */
    permissions: string;
    created_at: DefaultedTimestamp;
    updated_at: DefaultedTimestamp;
  };
  user_auth_sessions: {
    /** The value of the session cookie. */
    id: string;
    user_id: string;
    access_token_enc: string;
    refresh_token_enc: string;
    /** Expiry of the access token; null where the provider did not say. */
    expires_at: Date | null;
    created_at: DefaultedTimestamp;
    last_used_at: DefaultedTimestamp;
    token_version: Generated<number>;
    refresh_lease_until: ColumnType<Date | null, Date | null | undefined, Date | null>;
  };
  pending_logins: {
    state: string;
    code_verifier: string;
    platform: 'android' | null;
    browser_id: string | null;
    earlier_session_id: string | null;
    expires_at: Date;
  };
};
