/** Listing that a digest reports, with the reason. */
export type Find = { listing_id: number; reason: 'new' | 'cheaper' };

/** Form of finds for models, without texts of third parties. */
type WrittenFinds = { new_listing_ids: number[]; cheaper_listing_ids: number[]; more?: number };

/**
 * Writes the finds of a digest as JSON for models.
 * @param moreCount Number of further finds, which the digest only counts.
 */
export function writeFinds(finds: readonly Find[], moreCount: number): string {
  const listIds = (reason: Find['reason']) =>
    finds.filter((find) => find.reason === reason).map(({ listing_id }) => listing_id);
  const writtenFinds: WrittenFinds = {
    new_listing_ids: listIds('new'),
    cheaper_listing_ids: listIds('cheaper'),
    ...(moreCount > 0 && { more: moreCount }),
  };
  return JSON.stringify(writtenFinds);
}

/** Reads the finds of a digest from the text of `writeFinds`, new listings first. */
export function readFinds(text: string): Find[] {
  // Only `writeFinds` writes this text.
  const { new_listing_ids: newIds, cheaper_listing_ids: cheaperIds } = JSON.parse(
    text,
  ) as WrittenFinds;
  return [
    ...newIds.map((listing_id) => ({ listing_id, reason: 'new' as const })),
    ...cheaperIds.map((listing_id) => ({ listing_id, reason: 'cheaper' as const })),
  ];
}
