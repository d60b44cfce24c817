import { gfmTableFromMarkdown } from 'mdast-util-gfm-table';
import { gfmTable } from 'micromark-extension-gfm-table';
import { memo } from 'react';
import ReactMarkdown, { type Components } from 'react-markdown';
import { AddressLink } from '../cards/address-link.tsx';
import { splitBlocks } from './blocks.ts';
import { linkTexts, sanitizeAddress } from './links.ts';

/** Everything that an answer may contain. Pictures are left out, because their addresses can leak what was said. */
const ALLOWED_ELEMENTS =
  'p br strong em a ul ol li blockquote code pre h1 h2 h3 h4 h5 h6 hr table thead tbody tr th td'.split(
    ' ',
  );

const COMPONENTS: Components = {
  // Headings of an answer are below the heading of the page.
  h1: 'h3',
  h2: 'h4',
  h3: 'h5',
  h4: 'h6',
  h5: 'h6',
  a({ href = '', children }) {
    if (href === '') return <span>{children}</span>;
    if (href.startsWith('/')) return <AddressLink href={href}>{children}</AddressLink>;
    const { host } = new URL(href);
    const isNamed = typeof children === 'string' && children.includes(host);
    return (
      <>
        <a href={href} target="_blank" rel="noopener noreferrer">
          {children}
        </a>
        {!isNamed && ` (${host})`}
      </>
    );
  },
  // A wide table scrolls by itself, also by keyboard.
  table: ({ children }) => (
    <div tabIndex={0} role="group">
      <table>{children}</table>
    </div>
  ),
};

type Extensions = { micromarkExtensions?: unknown[]; fromMarkdownExtensions?: unknown[] };

/** Plugin for remark that reads tables. The rest of GitHub's Markdown would take a quarter of the page's scripts. */
function readTables(this: { data: () => object }): void {
  const data: Extensions = this.data();
  (data.micromarkExtensions ??= []).push(gfmTable());
  (data.fromMarkdownExtensions ??= []).push(gfmTableFromMarkdown());
}

/** Text of an answer. Its markup is limited to what text needs; HTML is left out. */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  return (
    <ReactMarkdown
      skipHtml
      unwrapDisallowed
      allowedElements={ALLOWED_ELEMENTS}
      remarkPlugins={[readTables]}
      rehypePlugins={[linkTexts]}
      urlTransform={sanitizeAddress}
      components={COMPONENTS}
    >
      {text}
    </ReactMarkdown>
  );
});

/** Text of an answer that grows. Only its last block is parsed again. */
export function GrowingMarkdown({ text }: { text: string }) {
  // The blocks before the last one keep their places.
  return splitBlocks(text).map((block, index) => <Markdown key={index} text={block} />);
}
