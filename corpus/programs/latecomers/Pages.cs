using System;
using System.Net;

class Pages {
    static void Main(string[] args) {
        var listener = new HttpListener();
        listener.Prefixes.Add("http://*:" + args[0] + "/");
        listener.Start();
        var page = new byte[int.Parse(args[1])];
        while (true) {
            var asked = listener.GetContext();
            asked.Response.ContentLength64 = page.Length;
            asked.Response.OutputStream.Write(page, 0, page.Length);
            asked.Response.Close();
        }
    }
}
