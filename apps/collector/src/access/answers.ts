/** How a request that changes something can be refused before its route sees it, for the OpenAPI document. */
export const CHANGE_REFUSALS = [401, 403, 'cross_site_request', 'unknown_host'] as const;
