/** The provider's icon in browser tabs: a key. */
export const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
  <rect width="32" height="32" rx="7" fill="#1f5fbf"/>
  <g fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round" stroke-linejoin="round">
    <circle cx="11.5" cy="20.5" r="4.5"/>
    <path d="M15 17l8-8m-3 3 3 3"/>
  </g>
</svg>
`;
