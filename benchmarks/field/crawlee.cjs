// A crawler of Crawlee for Node.js, as `robotgate judge` starts it: with its defaults, or, where its argument is "polite",
// with the settings that its documentation has for polite crawls.
const { readFileSync } = require("node:fs");
const { Configuration, HttpCrawler } = require("@crawlee/http");

const AGENT = "ExampleBot/1.0 (+https://example.org/bot)";
const POLITE = {
  respectRobotsTxtFile: { userAgent: "ExampleBot" },
  sameDomainDelaySecs: 1,
  ignoreSslErrors: false,
};
const urls = readFileSync(process.env.ROBOTGATE_JUDGE_URLS, "utf-8").trim().split("\n");
const crawler = new HttpCrawler(
  {
    requestHandler: async () => {},
    // The pages are plain text.
    additionalMimeTypes: ["*/*"],
    ...(process.argv[2] === "polite" ? POLITE : {}),
  },
  new Configuration({ persistStorage: false, logLevel: "OFF" }),
);
crawler.run(urls.map((url) => ({ url, headers: { "User-Agent": AGENT } })));
