/** Node of a tree of HTML elements, with the members that this file reads. */
export type HtmlNode = {
  type: string;
  tagName?: string;
  value?: string;
  properties?: Record<string, unknown>;
  children?: HtmlNode[];
};

/** Number of a listing in a text, such as #22, or an address without the punctuation after it. */
const LINK_PATTERN =
  /(?<![\p{L}\p{N}#])#(\d{1,15})(?![\p{L}\p{N}])|https?:\/\/[^\s<>«»"()]*[^\s<>«»"().,;:!?]/u;

/** Elements whose text is left as it is. */
const PLAIN_ELEMENTS = new Set(['a', 'code']);

/** Returns the address if a link may lead there: http, https or a page of the console; otherwise an empty text. */
export function sanitizeAddress(address: string): string {
  if (/^\/app\/(?!\/)/.test(address)) return address;
  const url = URL.parse(address);
  return url?.protocol === 'https:' || url?.protocol === 'http:' ? url.href : '';
}

/** Plugin for rehype that makes links of the numbers of listings and of addresses. */
export function linkTexts() {
  return (tree: HtmlNode): void => linkInside(tree);
}

function linkInside(node: HtmlNode): void {
  node.children = node.children?.flatMap((child): HtmlNode[] => {
    if (child.type === 'text') return splitText(child.value ?? '');
    if (!PLAIN_ELEMENTS.has(child.tagName ?? '')) linkInside(child);
    return [child];
  });
}

function splitText(text: string): HtmlNode[] {
  const match = LINK_PATTERN.exec(text);
  if (match === null) return [{ type: 'text', value: text }];
  const end = match.index + match[0].length;
  const link: HtmlNode = {
    type: 'element',
    tagName: 'a',
    properties: { href: match[1] === undefined ? match[0] : `/app/listings/${match[1]}` },
    children: [{ type: 'text', value: match[0] }],
  };
  return [{ type: 'text', value: text.slice(0, match.index) }, link, ...splitText(text.slice(end))];
}
