type Document = {
  paths: Record<
    string,
    Record<
      string,
      {
        responses: Record<
          string,
          { content?: Record<string, { examples?: Record<string, object> }> }
        >;
      }
    >
  >;
};

/** What a collector's OpenAPI document says that a POST can be answered: the codes of errors by status. */
export async function documentedAnswers(
  collector: { url: string },
  path: string,
): Promise<Record<string, string[]>> {
  const response = await fetch(`${collector.url}/openapi.json`);
  const { paths } = (await response.json()) as Document;
  const answers = Object.entries(paths[path]?.['post']?.responses ?? {});
  return Object.fromEntries(
    answers.map(([status, { content }]) => [
      status,
      Object.keys(content?.['application/problem+json']?.examples ?? {}).toSorted(),
    ]),
  );
}
